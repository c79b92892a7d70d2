gy_test(codec codec base)
gy_test(codec_shared codec base)
gy_test(kv_shared codec base)
