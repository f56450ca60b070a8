"""Python numbers while a function is captured: lifted ones are inputs, questions about them are guards,
math on them is recorded."""
