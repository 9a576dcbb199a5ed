"""Who is who and who may do what: the one place that decides it, for MQTT, CoAP and the console."""
