gy_test(plan model file text kv op codec base)
target_sources(test_plan PRIVATE golden/naive.c golden/golden.c)
gy_test(desc model file text kv op codec base)
