"""A life told by another way than a night's, and rows in the form that anybody can repeat."""
