PASSWORD = "example"
