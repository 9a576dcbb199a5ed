"""CoAP on a gateway: the server over UDP and DTLS, who may write, and a client."""
