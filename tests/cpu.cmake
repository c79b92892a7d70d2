gy_test(linear cpu codec base)
