"""What Carrel talks about: plain frozen values that know nothing of storage or transport."""
