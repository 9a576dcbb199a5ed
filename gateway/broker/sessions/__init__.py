"""Sessions: what a client leaves when its connection goes: subscriptions, messages, wills."""
