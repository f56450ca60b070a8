"""Random numbers, from counters: a number depends on the seed, the call's place in the program and the element.

draws.py is one random element; factories.py fills tensors (rand, randn, randint, randperm), sampling.py takes
parameters (bernoulli, normal, multinomial, dropout), distributions.py has further distributions, counts.py poisson and
binomial.
"""

from weft.catalogue.random import counts, distributions, draws, factories, sampling  # noqa: F401
