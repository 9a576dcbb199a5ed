"""The local MQTT broker and the log that its acknowledgements stand on."""
