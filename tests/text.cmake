# Tests of src/text.
gy_test(unicode text base)
gy_test(tmpl text base)
gy_test(tok text base)
gy_test(detok text base)
gy_test(tok_rules text base)
gy_test(chat text base)
