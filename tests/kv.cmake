gy_test(kv kv codec base)
