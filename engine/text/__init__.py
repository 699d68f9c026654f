"""Words to token ids: lexicon, patterns, rules of agreement, tokenizer, composition; and a user's table to its rows."""
