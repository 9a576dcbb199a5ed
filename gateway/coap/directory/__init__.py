"""The Resource Directory over CoAP, a gateway's own and those of all."""
