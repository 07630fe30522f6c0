"""The zoo: does a default fit come near to what its encoder can do, on systems drawn at random?"""
