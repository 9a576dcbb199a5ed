"""The gateway process: broker, links, CoAP and sensors, composed."""
