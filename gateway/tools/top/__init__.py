"""`hedgerow top`: what running gateways tell, as frames of text that change while one looks.

All but `terminal` is pure: documents and the time come in, lines go out, and what a key does is a
new `TopView`. So a test looks at frames, and no test needs a terminal to see what a gateway that
misbehaves does to them.

- `gateway_document` reads documents that may hold anything;
- `sample` is what one gateway told at one time, `fleet_sample` what all told through it;
- `history` is what the samples say together: rates, percentiles, a start meanwhile;
- `top_view` is what somebody looks at, and what keys change of it;
- `panels`, `meters` and `frame` draw, by `cells` and `quantities`.
"""
