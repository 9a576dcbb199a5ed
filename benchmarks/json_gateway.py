"""A gateway that writes requests and answers to others as JSON, for `benchmarks.request_forms`.

``python -m benchmarks.json_gateway`` takes the arguments of ``hedgerow``. All that it talks to must
be started so, too.
"""

from __future__ import annotations

import sys

from benchmarks.json_forms import speak_json
from gateway.tools.cli import main

if __name__ == "__main__":
    speak_json()
    sys.exit(main())
