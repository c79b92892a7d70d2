gy_test(json base)
gy_test(pool base)
gy_test(basics base)
gy_fuzz(json base)
