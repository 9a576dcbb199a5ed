"""Sensors and actuators as CoAP resources."""
