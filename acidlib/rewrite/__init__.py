"""One unit of work, a bucket file, carried out where its bytes are: read keys, plan, copy or recode, prove."""
