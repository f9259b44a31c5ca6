# cmake -D CORE=... -D OUT=... -P analysis.cmake: a C file with a hash of what decides what a summary of a recording says, and how it is
# written. A summary that another program has kept counts only where the hash is the same.
file(GLOB_RECURSE sources ${CORE}/ask/*.[ch] ${CORE}/import/*.[ch] ${CORE}/log/*.[ch] ${CORE}/model/*.[ch] ${CORE}/ranks/*.[ch]
	${CORE}/spool/*.[ch])
list(FILTER sources EXCLUDE REGEX "/ranks/(main|render)/")
list(SORT sources)
set(hashes)
foreach(source IN LISTS sources)
	file(SHA256 ${source} hash)
	string(APPEND hashes ${hash})
endforeach()
string(SHA256 hash "${hashes}")
string(SUBSTRING ${hash} 0 16 hash)
file(CONFIGURE OUTPUT ${OUT} CONTENT [[
#include "ranks/analysis.h"

const char *gm_ranks_analysis(void)
{
	return "gpumem " GPUMEM_VERSION ", @hash@";
}
]] @ONLY)
