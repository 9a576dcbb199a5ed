"""How clients come in: TCP, TLS and websockets, up to the first packet."""
