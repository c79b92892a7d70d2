gy_test(sample run base)
if(TARGET gyre)
  gy_test(invariance all)
endif()
