"""Policy: the one place that decides who may do what, for MQTT, CoAP and the console."""
