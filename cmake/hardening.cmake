# What makes a fault of ours harder to use against who runs it: of every binary that is installed. tests/e2e/test_hardening.py
# looks at each.
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

set(GM_HARDENING -fstack-protector-strong -fstack-clash-protection)
set(GM_HARDENING_LINK -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
# The C library checks what it is told the room of, in optimised code only. A distribution may define a lower one.
set(GM_FORTIFY -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
set(GM_FORTIFY_OPTIMISED "$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:${GM_FORTIFY}>")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
	list(APPEND GM_HARDENING -fcf-protection=full)
	# Shadow stacks: said of the whole, though the C library's start files may not say it of themselves; they return to where they
	# were called from as well. Indirect branch tracking is not: it is true only where they begin with endbr64,
	# and there the linker says so by itself.
	list(APPEND GM_HARDENING_LINK -Wl,-z,shstk -Wl,-z,ibtplt)
endif()

# A library that is built without the sanitizers.
function(gm_harden target)
	get_target_property(kind ${target} TYPE)
	target_compile_options(${target} PRIVATE ${GM_HARDENING} ${ARGN})
	if(NOT kind STREQUAL "OBJECT_LIBRARY")
		target_link_options(${target} PRIVATE ${GM_HARDENING_LINK})
	endif()
endfunction()
