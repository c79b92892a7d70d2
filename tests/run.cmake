gy_test(sample run base)
