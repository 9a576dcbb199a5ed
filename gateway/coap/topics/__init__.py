"""CoAP over MQTT: requests and observations as topics that begin with ``$coap``."""
