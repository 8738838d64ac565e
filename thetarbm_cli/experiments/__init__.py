"""What is run: settings, one run start to finish, and the store of run records."""
