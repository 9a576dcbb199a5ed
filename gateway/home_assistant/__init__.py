"""Home Assistant's MQTT discovery: sensors and actuators announce themselves to it."""
