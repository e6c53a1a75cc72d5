"""Session sockets: a program that holds sessions lets other programs of the same user reach each of them."""
