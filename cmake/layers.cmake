# One static library per folder. A new .c file in a folder is picked up by name; nothing else has to be edited.
# The suffix of a kernel file names the instructions it may use; such a file is entered only after a check at run time.

set(ROCO_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wpointer-arith -Wvla -Wformat=2 -Wundef -Wno-unused-parameter
    -Werror)

add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:${ROCO_WARNINGS}>" -fno-omit-frame-pointer
    "$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wmissing-prototypes>"
    # A product is fused with a sum only where the code says so: results stay the same on every compiler.
    "$<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off>")
add_compile_definitions(_GNU_SOURCE ROCO_VERSION="${PROJECT_VERSION}")
if(ROCO_FAULTS)
  add_compile_definitions(ROCO_FAULTS)
endif()
if(ROCO_SANITIZE)
  add_compile_options(-fsanitize=${ROCO_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ROCO_SANITIZE})
endif()

# A server that takes bytes from strangers: what the compiler offers at no measurable cost.
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
add_compile_options(-fstack-protector-strong)
add_link_options(-Wl,-z,relro,-z,now)
if(NOT ROCO_SANITIZE)
  # Undefined first: some distributions' compilers define it already.
  add_compile_options("$<$<NOT:$<CONFIG:Debug>>:SHELL:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>")
endif()

set(ROCO_AVX2 -mavx2 -mfma -mf16c)
set(ROCO_AVXVNNI ${ROCO_AVX2} -mavxvnni)
set(ROCO_AVX512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni)

function(roco_layer name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.c ${PROJECT_SOURCE_DIR}/${name}/cpu/*.c)
  list(FILTER sources EXCLUDE REGEX "/main\\.c$")
  add_library(roco_${name} STATIC ${sources})
  target_include_directories(roco_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(roco_${name} PUBLIC ${ARGN} Threads::Threads m)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    foreach(source IN LISTS sources)
      if(source MATCHES "_avx2\\.c$")
        set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${ROCO_AVX2}")
      elseif(source MATCHES "_avxvnni\\.c$")
        set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${ROCO_AVXVNNI}")
      elseif(source MATCHES "_avx512\\.c$")
        set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${ROCO_AVX512}")
      endif()
    endforeach()
  endif()
endfunction()
