gy_test(kv kv codec base)
gy_test(chain kv codec base)
gy_test(snap kv codec base)
gy_fuzz(snap kv codec base)
