"""Words to token ids: lexicon, patterns, tokenizer, composition."""
