"""The protocols that run between gateways, as pure state machines.

Nothing in this package opens a socket, reads a clock, draws a random number or writes a log
line: time is an argument in seconds (monotonic unless a name says otherwise), what is to be
done comes back as a value. So the classes that run in production are the very ones that the
simulator drives.
"""
