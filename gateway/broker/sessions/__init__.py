"""What a client leaves behind when its connection goes: subscriptions, messages, wills."""
