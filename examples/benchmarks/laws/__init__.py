"""Laws of data on which default fits are compared from one state of the code to the next."""
