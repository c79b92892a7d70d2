gy_test(kv kv codec base)
gy_test(chain kv codec base)
