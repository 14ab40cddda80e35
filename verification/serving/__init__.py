"""The forms while they are served: the server, what it is asked, what it takes."""
