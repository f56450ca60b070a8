"""Random numbers, from counters: a number depends on the seed, the call's place in the program and the element.

draws.py is one random element; factories.py fills tensors (rand, randn, randint, randperm), sampling.py takes
parameters (bernoulli, normal, multinomial, dropout), distributions.py has further distributions, counts.py poisson and
binomial, gammas.py gamma, Dirichlet and von Mises numbers with their gradients. streams.py gives an element as many
words as it needs.
"""

from weft.catalogue.random import counts, distributions, draws, factories, gammas, sampling  # noqa: F401
