"""Which of several models: the simplest that predicts held-out data about as well as the best.

folds      what is held out
judged     what a choice misses of it, in decibels
rule       which choice is recommended, and why
dynamics   dynamics="auto": candidates on a part of the data and of the budget
"""
