"""Web page of a market, from a lake or the live feed, served on localhost.

`lake_application` and `live_application` create the pages, `PageServer` serves one. They require
the extra ``pregao[ui]`` (Starlette, uvicorn, websockets), which is imported on first use.
"""
