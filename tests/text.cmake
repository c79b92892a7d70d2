# Tests of src/text.
gy_test(unicode text base)
