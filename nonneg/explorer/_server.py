"""The web server: pages, images and the JSON that the pages show."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import cache, partial
from importlib import resources
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.requests import ClientDisconnect

from nonneg import __version__
from nonneg.errors import InputError
from nonneg.explorer import _answers as answers
from nonneg.explorer import _requests as requests
from nonneg.explorer._explorer import Explorer
from nonneg.explorer._guard import Guard, is_page
from nonneg.features import content_type

STATIC = resources.files("nonneg.explorer") / "static"
_THREADS = 4  # a request may need as much memory as the codes, and more threads are not faster
_MAX_PICTURE = 20_000_000  # bytes; `Guard` limits all other requests
_PROBLEMS: dict[int | str, dict[str, Any]] = {404: {"model": answers.Problem}, 422: {"model": answers.Problem}}
_PAGES = (
    *("/", "/features", "/feature/{number}", "/sample/{number}", "/samples", "/map"),
    *("/compose", "/compare", "/try", "/reference"),
)


def build_app(
    explorer: Explorer, *, host: str = "127.0.0.1", token: str | None = None, read_only: bool = False
) -> FastAPI:
    """Return the web application for an `Explorer`."""
    # FastAPI's documentation pages load scripts from other sites; /reference replaces them.
    app = FastAPI(title="nonneg explorer", version=__version__, docs_url=None, redoc_url=None, lifespan=_limit_threads)
    app.add_middleware(Guard, host=host, token=token, read_only=read_only)
    app.mount("/static", StaticFiles(directory=str(STATIC)), "static")
    _add_errors(app)
    _add_pages(app)
    _add_queries(app, explorer, read_only)
    _add_map(app, explorer)
    _add_commands(app, explorer)
    return app


@asynccontextmanager
async def _limit_threads(app: FastAPI) -> AsyncIterator[None]:
    to_thread.current_default_thread_limiter().total_tokens = _THREADS
    yield


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(InputError)
    def report_input_error(request: Request, error: InputError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422)

    @app.exception_handler(ClientDisconnect)
    def report_interruption(request: Request, error: ClientDisconnect) -> JSONResponse:
        """Answer a visitor who has left during an upload, so that the log stays free of a traceback."""
        return JSONResponse({"detail": "the request is incomplete"}, 400)

    @app.exception_handler(RequestValidationError)
    def report_invalid_request(request: Request, error: RequestValidationError) -> JSONResponse:
        """Answer in one sentence, without the input, which may be long or not representable as JSON."""
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])[:200].encode("ascii", "replace").decode()
        return JSONResponse({"detail": f"{where or 'the request'}: {first['msg']}"}, 422)


def _add_pages(app: FastAPI) -> None:
    answer = partial(FileResponse, str(STATIC / "index.html"), media_type="text/html")

    def page() -> FileResponse:
        return answer()

    @app.exception_handler(404)
    async def report_missing(request: Request, error: HTTPException) -> Response:
        """Answer a mistyped address with the page, which says that there is no such page."""
        if is_page(request.method, request.url.path) and not request.url.path.startswith("/static"):
            return answer(status_code=404)
        return await http_exception_handler(request, error)

    for path in _PAGES:
        app.add_api_route(path, page, include_in_schema=False)


def _json(answer: answers.Answer) -> Response:
    """Return an answer as it is: it was validated when it was made; FastAPI would do that again in another thread."""
    return Response(answer.model_dump_json(), media_type="application/json")


def _one_at_a_time(function: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Run a slow function in a thread of its own, one call at a time, so that other requests have their threads."""
    turn = cache(partial(CapacityLimiter, 1))  # made within the event loop

    async def call(*arguments: Any) -> Any:
        return await to_thread.run_sync(function, *arguments, limiter=turn())

    return call


def _add_queries(app: FastAPI, explorer: Explorer, read_only: bool) -> None:
    figures_in_turn, comparison_in_turn = _one_at_a_time(explorer.figures), _one_at_a_time(explorer.comparison)

    @app.get("/api/overview", response_model=answers.Overview)
    def overview() -> Response:
        """Return a summary of the one or two open sets of features."""
        return _json(explorer.overview(can_write=not read_only))

    @app.get("/api/sets/{number}/figures", responses=_PROBLEMS, response_model=answers.Figures)
    async def figures(number: int) -> Response:
        """Return class consistency with its chance level, and SEPIN."""
        return _json(await figures_in_turn(number))

    @app.get("/api/sets/{number}/features", responses=_PROBLEMS, response_model=answers.FeatureTable)
    def features(number: int) -> Response:
        """Return the table of all features."""
        return _json(explorer.table(number))

    @app.get("/api/sets/{number}/strip/{feature}", responses=_PROBLEMS, response_model=answers.Strip)
    def strip(number: int, feature: int) -> Response:
        """Return a feature's nine strongest samples, and nine from strongest to weakest."""
        return _json(explorer.strip(number, feature))

    @app.get("/api/sets/{number}/feature/{feature}", responses=_PROBLEMS, response_model=answers.FeaturePage)
    def feature(number: int, feature: int) -> Response:
        """Return everything about one feature."""
        return _json(explorer.feature(number, feature))

    @app.get("/api/sets/{number}/sample/{row}", responses=_PROBLEMS, response_model=answers.SamplePage)
    def sample(number: int, row: int, off: Annotated[list[int] | None, Query(max_length=1000)] = None) -> Response:
        """Return a sample, its features, and its neighbours computed without the features in `off`."""
        return _json(explorer.sample(number, row, off or []))

    @app.get("/api/sets/{number}/find", responses=_PROBLEMS, response_model=answers.FoundSamples)
    def find(
        number: int,
        q: Annotated[str, Query(max_length=1000)] = "",
        label: Annotated[str | None, Query(max_length=10_000)] = None,
        shown: Annotated[int, Query(ge=0, le=200)] = 24,
    ) -> Response:
        """Find samples whose text, id or label contains all words of `q`, and that have a label."""
        return _json(explorer.find(number, q, label, shown))

    @app.get("/api/comparison", responses=_PROBLEMS, response_model=answers.Comparison)
    async def comparison() -> Response:
        """Return a one-to-one matching of the two sets."""
        return _json(await comparison_in_turn())

    @app.get("/media/{number}/{row}", responses=_PROBLEMS, response_class=Response)
    def picture(number: int, row: int) -> Response:
        """Return a sample's image."""
        content = explorer.picture(number, row)
        kind = content_type(content)
        if kind is None:
            raise HTTPException(404, f"sample {row} has no image that browsers can show")
        return Response(content, media_type=kind, headers={"Cache-Control": "private, max-age=86400, immutable"})


def _add_map(app: FastAPI, explorer: Explorer) -> None:
    map_in_turn = _one_at_a_time(explorer.map)

    @app.get("/api/sets/{number}/map", responses=_PROBLEMS, response_model=answers.MapPage)
    async def sample_map(number: int) -> Response:
        """Return a map of the samples, which takes seconds when it is computed for the first time."""
        return _json(await map_in_turn(number))

    @app.get("/api/sets/{number}/map/{feature}", responses=_PROBLEMS, response_model=answers.MapColours)
    def map_colours(number: int, feature: int) -> Response:
        """Return the strength of a feature on each sample, as colours of the map."""
        return _json(explorer.map_colours(number, feature))


def _add_commands(app: FastAPI, explorer: Explorer) -> None:
    encode_in_turn = _one_at_a_time(explorer.encode)

    @app.post("/api/sets/{number}/samples", responses=_PROBLEMS, response_model=answers.Samples)
    def samples(number: int, given: requests.Rows) -> Response:
        """Describe samples in short. Nothing is changed."""
        return _json(explorer.samples(number, given.rows))

    @app.post("/api/sets/{number}/search", responses=_PROBLEMS, response_model=answers.SearchResult)
    def search(number: int, query: requests.Query) -> Response:
        """Find samples by features, example samples and excluded features. Nothing is changed."""
        return _json(explorer.search(number, query))

    problems = {409: {"model": answers.Problem}, **_PROBLEMS}

    @app.put("/api/sets/{number}/feature/{feature}/name", responses=problems, response_model=answers.NamingResult)
    def rename(number: int, feature: int, given: requests.NewName) -> Response:
        """Name a feature. Fails with status 409 if its name is not the one in `replaces`."""
        named = explorer.rename(number, feature, given)
        if named is None:
            raise HTTPException(409, "the feature was renamed in the meantime, expected its current name in replaces")
        return _json(named)

    @app.post("/api/sets/{number}/encode-text", responses=_PROBLEMS, response_model=answers.Encoded)
    async def encode_text(number: int, given: requests.NewText) -> Response:
        """Return the active features of a new text, which is not stored."""
        return _json(await encode_in_turn(number, given.text))

    marks_in_turn = _one_at_a_time(explorer.marks)

    @app.post("/api/sets/{number}/marks", responses=_PROBLEMS, response_model=answers.Marks)
    async def marks(number: int, given: requests.MarksAsked) -> Response:
        """Return which words of a text switch a feature on, found by leaving each out. Nothing is stored."""
        return _json(await marks_in_turn(number, given))

    @app.post("/api/sets/{number}/encode", responses=_PROBLEMS, response_model=answers.Encoded)
    async def encode(number: int, request: Request) -> Response:
        """Return the active features of a new image, sent as PNG or JPEG bytes, which is not stored."""
        content = bytearray()
        async for chunk in request.stream():
            content += chunk
            if len(content) > _MAX_PICTURE:
                raise HTTPException(413, f"the image has more than {_MAX_PICTURE:,} bytes, expected a smaller one")
        if content_type(bytes(content)) is None:
            raise HTTPException(422, "the file is not a readable image, expected a PNG or JPEG file")
        return _json(await encode_in_turn(number, bytes(content)))
