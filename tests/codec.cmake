gy_test(codec codec base)
gy_test(codec_shared codec base)
gy_test(turbo codec base)
gy_test(kv_shared codec base)
gy_test(kvname codec base)
gy_fuzz(kvname codec base)

# The bodies of cpu/kvdec.inc, compiled as isa_avx2.c compiles them.
gy_test(kvdec codec base)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(test_kvdec PRIVATE -mavx2 -mfma -mf16c)
elseif(GY_NEON)
  target_compile_options(test_kvdec PRIVATE ${GY_NEON})
endif()
