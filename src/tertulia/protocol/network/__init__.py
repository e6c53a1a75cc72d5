"""The way of this process to other hosts: proxies, and certificates that it trusts."""
