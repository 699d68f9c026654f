"""Which colour does a model give to things, said of them and denied?"""
