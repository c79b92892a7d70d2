gy_test(plan model file text kv op codec base)
target_sources(test_plan PRIVATE golden/naive.c golden/golden.c)
