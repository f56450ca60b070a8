"""A captured program as it is called: what it is given, what guards it, what runs it, and what it leaves behind."""
