"""
Before the data
===============

Before a study asks for records, it can see what they will tell. A plan says what a fit will
release, and with how much noise; two functions find the epsilon or the number of records that you
need; and a simulation shows the accuracy to expect. None of them sees data, and none costs
anything.
"""

import matplotlib.pyplot as plt

from skdpsco import PrivateRidge
from skdpsco.inspection import PrivacyUtilityDisplay, epsilon_for, n_for, plan

model = PrivateRidge(epsilon=1.0, target_bound=10.0)
print(plan(model, n_samples=2000, n_features=10))

# %%
# The noise in a coefficient is in standard deviations of the target per standard deviation of a
# feature. What does it take to bring it down to a tenth, or a fiftieth?
for noise in (0.1, 0.02):
    epsilon = epsilon_for(model, 2000, 10, coefficient_noise=noise)
    n = n_for(model, 10, coefficient_noise=noise)
    print(f"{noise:g}: epsilon={epsilon:g} with 2000 records, or {n} records with epsilon=1")

# %%
# Is that enough for good predictions? In these generated records, five of ten features explain four
# fifths of the variance of the target.
display = PrivacyUtilityDisplay.simulate(
    model, n_samples=2000, n_features=10, epsilons=[0.25, 0.5, 1.0, 2.0, 4.0], signal=0.8
)
display.ax_.set_title("2000 records of 10 columns")
plt.show()
