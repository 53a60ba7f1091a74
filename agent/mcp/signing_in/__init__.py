"""OAuth: signing in to a server on the network, and signing the requests to it afterwards."""
