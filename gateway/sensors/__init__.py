"""Sensors and actuators: the classes to subclass, the kinds that ship, and what reads them."""
